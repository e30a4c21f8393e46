# gnuplot 5.4 or later
reset
set encoding utf8
set terminal dumb size 80,20 noenhanced mono
set output
$data0_0 << EOD
1 400
4 100
EOD
$data0_1 << EOD
1 500
EOD
$data1_0 << EOD
1 100
4 100
EOD
$data1_1 << EOD
1 100
EOD
$data2_0 << EOD
1 0.25
4 1
EOD
$data2_1 << EOD
1 0.2
EOD
$data3_0 << EOD
1 1
4 1
EOD
$data3_1 << EOD
1 1
EOD
unset key
set tics nomirror out scale 0.5
set border 3
set logscale x 2
set xrange [0.933032992:4.28709385]
set xtics ('1' 1, '4' 4)
set xlabel 'parallel.cp'
set xlabel 'parallel.cp  A overlap yes  B overlap no'
set title 'Step time (ms)'
set logscale y
set format y '%g'
set yrange [76.9230769:650]
set ytics (100, 200, 500)
plot $data0_0 using 1:2 with linespoints linetype 1 pointtype 'A' notitle, $data0_1 using 1:2 with linespoints linetype 2 pointtype 'B' notitle
set title 'Exposed communication (% of the step)'
unset logscale y
set yrange [0:5]
set ytics 0,1
set format y '%.0f'
plot $data2_0 using 1:2 with linespoints linetype 1 pointtype 'A' notitle, $data2_1 using 1:2 with linespoints linetype 2 pointtype 'B' notitle
unset output
